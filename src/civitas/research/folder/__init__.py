"""The tool that searches a folder: its files in an index, the passages that answer best."""

from civitas.research.folder.search import search_folder

__all__ = ["search_folder"]
