"""The dual act: a worker, R, executes and a reviewer, H, decides, until H accepts."""
