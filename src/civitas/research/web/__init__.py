"""The tools that read the web: pages, PDF documents, what search engines find."""

from civitas.research.web.pages import read_pdf, visit_page
from civitas.research.web.search import search_web

__all__ = ["read_pdf", "search_web", "visit_page"]
