"""Two chat agents with one local model: what the one answers is the other's question."""

from moothall import Agent, NativeSpace
from moothall.agents import ChattyAI
from moothall.models import LocalModel

with LocalModel(max_tokens=60) as model, NativeSpace() as space:
    space.add(ChattyAI("Ann", model))
    space.add(ChattyAI("Bob", model))
    me = space.add(Agent("me"))

    question = "Name one large city."
    city = me.ask("Ann", "say", content=question).result(timeout=120)
    print(f"me to Ann: {question}\nAnn:       {city}")
    opinion = me.ask("Bob", "say", content=f"What do you think of this? {city}").result(timeout=120)
    print(f"Bob:       {opinion}")
