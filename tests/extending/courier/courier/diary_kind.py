"""The row of a kind of document; its parser is imported only where documents are read."""

from moothall.research import DocumentKind

DIARY = DocumentKind(".diary", "text/x-diary", "courier.diary:read_diary")
