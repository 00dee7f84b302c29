"""Citizens as rows of arrays: columns, views, and what rows do."""
