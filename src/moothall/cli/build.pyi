"""The public names of this module, which `build.py` loads from here."""

from moothall.cli.exit_codes import NotBegun as NotBegun
from moothall.cli.interrupts import interruptible as interruptible
from moothall.cli.screen import Screen as Screen
from moothall.cli.shared_options import as_usage_error as as_usage_error
from moothall.cli.shared_options import journal_option as journal_option
from moothall.cli.shared_options import json_data_option as json_data_option
from moothall.cli.shared_options import json_option as json_option
from moothall.cli.shared_options import make_journal as make_journal
from moothall.cli.shared_options import open_journal as open_journal
from moothall.cli.shared_options import print_json as print_json
from moothall.cli.shared_options import run_limits as run_limits
