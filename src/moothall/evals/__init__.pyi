"""The public names of this package: `__init__.py` loads them from here."""

from moothall.evals.calls_to_take import LeftCall as LeftCall
from moothall.evals.cases import Case as Case
from moothall.evals.cases import Dataset as Dataset
from moothall.evals.evaluation import Evaluation as Evaluation
from moothall.evals.frozen_world import FrozenWorld as FrozenWorld
from moothall.evals.frozen_world import Leaves as Leaves
from moothall.evals.graders import Grade as Grade
from moothall.evals.graders import GradedCell as GradedCell
from moothall.evals.graders import Grader as Grader
from moothall.evals.graders import called as called
from moothall.evals.graders import calls_in_order as calls_in_order
from moothall.evals.graders import contains as contains
from moothall.evals.graders import cost_below as cost_below
from moothall.evals.graders import equals as equals
from moothall.evals.graders import footnotes_stand as footnotes_stand
from moothall.evals.graders import matches_schema as matches_schema
from moothall.evals.graders import no_guarded_value_from_outside as no_guarded_value_from_outside
from moothall.evals.graders import same_calls_as_record as same_calls_as_record
from moothall.evals.judging import judge as judge
from moothall.evals.people import SimulatedPerson as SimulatedPerson
from moothall.evals.replay import Replay as Replay
from moothall.evals.results import CellResult as CellResult
from moothall.evals.results import Evaluated as Evaluated
