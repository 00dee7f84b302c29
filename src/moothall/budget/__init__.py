"""What a run may spend: tokens, money, model calls, actions and time.

A spender first reserves an upper bound, and settles afterwards. Of any number of concurrent
reservations, those that do not fit are refused before they begin, or wait in turn.
"""

from moothall.foundation.lazily import lazily

__getattr__, __dir__ = lazily(__name__)
