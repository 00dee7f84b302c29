"""Files: written whole, and YAML as data with the line of each part."""

from moothall.files.whole import written_whole
from moothall.files.yaml_file import Where, read_yaml

__all__ = ["Where", "read_yaml", "written_whole"]
