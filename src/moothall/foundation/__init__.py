"""What every part stands on: errors, text, JSON data, files, threads, HTTP, and the stores."""
