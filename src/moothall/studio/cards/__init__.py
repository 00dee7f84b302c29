"""What waits for a person: approvals, questions, decisions and plans, as cards on every page."""

from moothall.studio.cards.cards import Cards as Cards
from moothall.studio.cards.cards import RunApprover as RunApprover
