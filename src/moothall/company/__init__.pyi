"""The public names of this package: `__init__.py` loads them from here."""

from moothall.company.company import Company as Company
from moothall.company.schedule import Schedule as Schedule
from moothall.company.supervisor import Restart as Restart
from moothall.company.supervisor import Supervised as Supervised
from moothall.company.supervisor import Supervisor as Supervisor
