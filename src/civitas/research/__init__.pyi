"""The names of `__init__.py` for type checkers and editors."""

from civitas.research.findings import Citation as Citation
from civitas.research.findings import Findings as Findings
from civitas.research.findings import Narrative as Narrative
from civitas.research.findings import Objective as Objective
from civitas.research.findings import Passage as Passage
from civitas.research.findings import ResearchResult as ResearchResult
from civitas.research.findings import ResearchTask as ResearchTask
from civitas.research.findings import Resource as Resource
from civitas.research.findings import Section as Section
from civitas.research.folder.index import search_folder as search_folder
from civitas.research.pool import ResourcePool as ResourcePool
from civitas.research.report import Report as Report
from civitas.research.researcher import Researcher as Researcher
from civitas.research.steps import Evaluate as Evaluate
from civitas.research.steps import Narrate as Narrate
from civitas.research.steps import Plan as Plan
from civitas.research.steps import Research as Research
from civitas.research.steps import Update as Update
from civitas.research.web.tools import read_pdf as read_pdf
from civitas.research.web.tools import search_web as search_web
from civitas.research.web.tools import visit_page as visit_page
