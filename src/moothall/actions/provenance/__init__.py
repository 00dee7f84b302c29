"""Provenance: where the texts of a thread come from, and with them the values of a call."""

from moothall.actions.provenance.origin import Kind as Kind
from moothall.actions.provenance.origin import Origin as Origin
from moothall.actions.provenance.origin import Origins as Origins
from moothall.actions.provenance.origin import merged_sources as merged_sources
from moothall.actions.provenance.origin import origins_of as origins_of
from moothall.actions.provenance.origin import sources_of as sources_of
from moothall.actions.provenance.origin import with_sources as with_sources
