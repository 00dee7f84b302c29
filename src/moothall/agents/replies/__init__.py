"""What replying agents share: requests, threads, events, hooks, and the record of a run."""
