"""A town of 200 citizens for a day, by rules alone: where they are, and how much they say.

Every number comes from the seed, so what is printed is the same each time.
"""

import asyncio

from moothall import City, Society
from moothall.society import Feed, make_economy

CITIZENS = 200


async def day() -> None:
    """Live for a day in steps of 15 minutes, and print each hour: where they are as it ends."""
    city = City.generate(seed=7, citizens=CITIZENS)
    services = [*make_economy(city, seed=7), Feed()]
    async with Society(CITIZENS, city, seed=7, services=services) as town:
        rows = await town.run(days=1)
    print("hour   at home  at work  moving  messages")
    for first in range(0, len(rows), 4):
        hour = rows[first : first + 4]
        last = hour[-1]
        messages = sum(row["messages"] for row in hour)
        print(
            f"{hour[0]['time'][11:16]}  {last['home']:7}  {last['work']:7}  "
            f"{last['moving']:6}  {messages:8}"
        )


asyncio.run(day())  # in a notebook: await day()
