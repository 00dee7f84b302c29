"""An agent with an action, and another that asks what it can do and then for that."""

from moothall import Agent, NativeSpace, action


class Calculator(Agent):
    @action
    async def add(self, a: int, b: int) -> int:
        """Add two integers.

        Args:
            a: the first
            b: the second
        """
        return a + b


if __name__ == "__main__":
    with NativeSpace() as space:
        space.add(Calculator("Calculator"))
        me = space.add(Agent("me"))
        print(me.ask("Calculator", "help").result(timeout=5))
        print("1 + 2 =", me.ask("Calculator", "add", a=1, b=2).result(timeout=5))
