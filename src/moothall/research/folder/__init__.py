"""The tool that searches a folder: its files in an index, the passages that answer best."""
