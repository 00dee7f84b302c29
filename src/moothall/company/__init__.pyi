"""The names of `__init__.py` for type checkers and editors."""

from moothall.company.company import Company as Company
from moothall.company.schedule import Schedule as Schedule
from moothall.company.supervisor import Restart as Restart
from moothall.company.supervisor import Supervised as Supervised
from moothall.company.supervisor import Supervisor as Supervisor
