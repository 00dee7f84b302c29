"""The public names of this package: `__init__.py` loads them from here."""

from moothall.testing.memories import MemoryConformance as MemoryConformance
from moothall.testing.memories import StoredMemoryConformance as StoredMemoryConformance
from moothall.testing.memories import ThreadMemoryConformance as ThreadMemoryConformance
from moothall.testing.models import ModelConformance as ModelConformance
from moothall.testing.models import StreamingModelConformance as StreamingModelConformance
from moothall.testing.spaces import SpaceConformance as SpaceConformance
