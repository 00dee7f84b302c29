"""The public names of this package: `__init__.py` loads them from here."""

from moothall.studio.jobs import Jobs as Jobs
from moothall.studio.page import Field as Field
from moothall.studio.page import PageForm as PageForm
from moothall.studio.page import Tab as Tab
from moothall.studio.page import attachment as attachment
from moothall.studio.page import limit_fields as limit_fields
from moothall.studio.page import report_page as report_page
from moothall.studio.page_server import PORT as PORT
from moothall.studio.ready import demo as demo
from moothall.studio.ready import gradio_user as gradio_user
from moothall.studio.space import StudioUser as StudioUser
from moothall.studio.studio import Studio as Studio
