"""Text for people: lines for a terminal, errors and logs, and what a notebook shows."""

from moothall.foundation.text.copies import copied_example as copied_example
from moothall.foundation.text.copies import copied_stretch as copied_stretch
from moothall.foundation.text.words import counted as counted
from moothall.foundation.text.words import cut as cut
from moothall.foundation.text.words import error_message as error_message
from moothall.foundation.text.words import error_text as error_text
from moothall.foundation.text.words import escaped as escaped
from moothall.foundation.text.words import escaped_json as escaped_json
from moothall.foundation.text.words import excerpt as excerpt
from moothall.foundation.text.words import json_type as json_type
from moothall.foundation.text.words import log_failure as log_failure
from moothall.foundation.text.words import marked as marked
from moothall.foundation.text.words import nearest as nearest
from moothall.foundation.text.words import one_line as one_line
from moothall.foundation.text.words import printable as printable
from moothall.foundation.text.words import render_path as render_path
from moothall.foundation.text.words import shorten as shorten
