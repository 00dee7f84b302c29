"""The public names of this package: `__init__.py` loads them from here."""

from moothall.testing.check_function import check_durable as check_durable
from moothall.testing.memory_suite import MemoryConformance as MemoryConformance
from moothall.testing.memory_suite import StoredMemoryConformance as StoredMemoryConformance
from moothall.testing.memory_suite import ThreadMemoryConformance as ThreadMemoryConformance
from moothall.testing.model_suite import ModelConformance as ModelConformance
from moothall.testing.model_suite import StreamingModelConformance as StreamingModelConformance
from moothall.testing.space_suite import SpaceConformance as SpaceConformance
