"""The public names of this package: `__init__.py` loads them from here."""

from moothall.evals.calls_to_take import LeftCall as LeftCall
from moothall.evals.frozen_world import FrozenWorld as FrozenWorld
from moothall.evals.frozen_world import Leaves as Leaves
from moothall.evals.frozen_world import Replay as Replay
