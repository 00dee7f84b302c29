"""The names of `__init__.py` for type checkers and editors."""

from moothall.research.findings import Citation as Citation
from moothall.research.findings import Findings as Findings
from moothall.research.findings import Heading as Heading
from moothall.research.findings import Narrative as Narrative
from moothall.research.findings import Objective as Objective
from moothall.research.findings import Passage as Passage
from moothall.research.findings import ResearchResult as ResearchResult
from moothall.research.findings import ResearchTask as ResearchTask
from moothall.research.findings import Resource as Resource
from moothall.research.findings import Section as Section
from moothall.research.folder.index import search_folder as search_folder
from moothall.research.pool import ResourcePool as ResourcePool
from moothall.research.report import Report as Report
from moothall.research.researcher import Researcher as Researcher
from moothall.research.steps import Evaluate as Evaluate
from moothall.research.steps import Narrate as Narrate
from moothall.research.steps import Plan as Plan
from moothall.research.steps import Research as Research
from moothall.research.steps import Update as Update
from moothall.research.web.tools import read_pdf as read_pdf
from moothall.research.web.tools import search_web as search_web
from moothall.research.web.tools import visit_page as visit_page
from moothall.research.writing.review import ProposedPlan as ProposedPlan
