"""Citizens who persuade each other by arguments, and listen to the like-minded or to others.

After Mäs, Flache 2013, "Differentiation without distancing", PLoS ONE 8(11), e74516: an opinion is
the balance of the arguments that one remembers, an argument that is heard takes the place of the
oldest, and whose message one takes in depends on how alike the two think.
"""

from __future__ import annotations

from pathlib import Path

from moothall import action
from moothall.actions.signature.schema import object_schema
from moothall.society import CitizenAgent, CitizenMemory, Draws, Network, Society
from moothall.society.blocks import CitizenBlock
from moothall.society.experiments.models import model_of

POOL = 20
"""So many arguments there are on either side."""


def balance(arguments: list[int]) -> int:
    """An opinion, -1000 to 1000: arguments above 0 are for, those below against."""
    return sum(1 if each > 0 else -1 for each in arguments) * 1000 // len(arguments)


class ArgueBlock(CitizenBlock):
    name = "ArgueBlock"
    description = "Takes in an argument, changes its opinion by it, and tells friends another"

    async def before_forward(self) -> None:
        status, draws, h = self.status, self.draws, self.status["homophily"]
        heard = [each["action"]["args"] for each in self.perceived.messages]
        if not heard:
            return
        # Whose message it takes in: h is the exponent of likeness, 0 … 1; below 0 of unlikeness.
        apart = [abs(status["opinion"] - each["opinion"]) / 2000 for each in heard]
        if not status["real"]:
            apart = [draws.uniform("argue.apart", number) for number in range(len(heard))]
        weights = [(1 - each if h >= 0 else each) ** abs(h) + 1e-6 for each in apart]
        taken = heard[draws.choice(weights, "argue.whom")]
        if taken["argument"] not in status["arguments"]:
            status["arguments"] = [*status["arguments"][1:], taken["argument"]]
        status["opinion"] = balance(status["arguments"])
        answer = await self.decide(
            "Citizens discuss whether guns should be controlled more strictly. You remember some "
            "arguments for it and some against it. Say how far you support it now.",
            object_schema(support={"type": "integer", "minimum": 0, "maximum": 10}),
            arguments_for=sum(each > 0 for each in status["arguments"]),
            arguments_against=sum(each < 0 for each in status["arguments"]),
        )
        if answer is not None:
            status["opinion"] = answer["support"] * 200 - 1000

    def fits(self, context: object) -> float:
        return 1.0

    async def forward(self) -> None:
        status = self.status
        argument = status["arguments"][self.draws.below(len(status["arguments"]), "argue.which")]
        args = {"argument": argument, "opinion": status["opinion"]}
        for friend in status["friends"]:
            self.agent.send({"to": friend, "action": {"name": "argue", "args": args}})


class Debater(CitizenAgent):
    @action(idempotent=True)
    async def argue(self, argument: int, opinion: int) -> None:
        """Hear an argument, and what its sender thinks."""


def society(
    seed: int,
    *,
    citizens: int = 100,
    homophily: float = 0,
    real: bool = True,
    memory: int = 9,
    friends: int = 6,
    llm: str | None = None,
    answers: str | None = None,
    folder: Path = Path(),
) -> Society:
    """Citizens on a small-world network.

    Args:
        homophily: the exponent of likeness by which one chooses whose message to take in; below
            0, of unlikeness; 0 chooses evenly
        real: whether likeness is that of opinions; else it is drawn for each message, which
            ablates the mechanism: one is as choosy, and nothing else differs
        memory: how many arguments one remembers
        friends: how many friends one has, about
    """
    network = Network.small_world(citizens, neighbours=friends, seed=seed)
    people = []
    for number in range(citizens):
        draws = Draws(seed, number, 0)
        lean = draws.below(1001, "argue.lean")  # from all against to all for
        arguments = [
            (1 + draws.below(POOL, "argue.first", each))
            * (1 if draws.below(1000, "argue.for", each) < lean else -1)
            for each in range(memory)
        ]
        opinion = balance(arguments)
        people.append(
            {
                "arguments": arguments,
                "opinion": opinion,
                "first": opinion,
                "real": real,
                "homophily": homophily,
                "friends": [each.id for each in network.near(str(number), limit=friends)],
            }
        )
    agents = [
        Debater(number, memory=CitizenMemory(status), blocks=[ArgueBlock()])
        for number, status in enumerate(people)
    ]
    model = model_of(llm, None if answers is None else folder / answers, folder)
    return Society(agents, seed=seed, model=model, model_timeout_s=600)


def _opinions(society: Society) -> list[tuple[int, int]]:
    statuses = [each.memory.status for each in society.agents]
    return [(each["first"], each["opinion"]) for each in statuses]


def more_polarised(society: Society) -> float:
    """The share of citizens whose opinion is more extreme than it was."""
    opinions = _opinions(society)
    return sum(abs(now) > abs(first) for first, now in opinions) / len(opinions)


def more_moderate(society: Society) -> float:
    """The share of citizens whose opinion is less extreme than it was, on the same side."""
    opinions = _opinions(society)
    return sum(abs(now) < abs(first) and now * first >= 0 for first, now in opinions) / len(
        opinions
    )


def other_side(society: Society) -> float:
    """The share of citizens who think the opposite of what they did."""
    opinions = _opinions(society)
    return sum(now * first < 0 for first, now in opinions) / len(opinions)


def extremity(society: Society) -> float:
    """How extreme opinions are on average: 0 none, 1 all."""
    opinions = _opinions(society)
    return sum(abs(now) for _, now in opinions) / len(opinions) / 1000
