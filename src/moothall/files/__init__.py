"""Files: written whole, and YAML as data with the line of each part."""

from moothall.files.whole import owned_as, written_whole
from moothall.files.yaml_file import Where, at_line, read_yaml, yaml_data

__all__ = ["Where", "at_line", "owned_as", "read_yaml", "written_whole", "yaml_data"]
