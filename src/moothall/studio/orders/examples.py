"""Examples that a page begins at a click, on a machine without weights and without a key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from moothall import ACCESS_REQUESTED, ConfigError, ReActAgent, ScriptedModel, action
from moothall.build import state_file
from moothall.studio.orders.research import ResearchOrder

if TYPE_CHECKING:
    from moothall import Approver
    from moothall.journal import Journal

_DOCUMENTS: Final = {
    "tea.md": "# Tea\n\nGreen tea is kept in a closed tin, away from light. It keeps its taste for "
    "about a year. An opened packet is used up within three months.\n",
    "returns.md": "# Returns\n\nA customer sends tea back within 14 days. An opened packet of tea "
    "is not taken back. The shop pays the postage of a return.\n",
    "orders.md": "# Orders\n\nThe shop sends an order of tea on the day after it is paid. An order "
    "above 40 euros is sent without postage.\n",
}
_OBJECTIVES: Final = ["How long does green tea keep?", "When is tea taken back?"]


@action(access_policy=ACCESS_REQUESTED, facts={"example": "no money moves"})
def refund(order: str, amount: str) -> str:
    """Refund an order of a customer."""
    return f"{amount} paid back for {order}"


def _answer(messages: list[dict[str, Any]], actions: Any = None) -> Any:
    if messages[-1]["role"] == "user":
        return {"name": "refund", "args": {"order": "A1", "amount": "18.50 EUR"}}
    is_paid = "paid back" in str(messages[-1]["content"])
    return "You have your money back." if is_paid else "The shop does not pay this order back."


async def ask_for_refund(run_id: str, journal: Journal, approver: Approver) -> None:
    """Have an agent work on a complaint: it asks the approver before it pays."""
    cashier = ReActAgent(
        "Cashier", ScriptedModel(_answer), actions=[refund], journal=journal, approver=approver
    )
    await cashier.reply("The tea of order A1 came broken.", run_id=run_id)


def report_order() -> ResearchOrder:
    """Return the order of a report on three documents, which it writes into the user's folder.

    Raises:
        ConfigError: they cannot be written
    """
    folder = state_file("example-documents")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, text in _DOCUMENTS.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"the example's documents cannot be written to {folder} ({error.strerror}): "
            "set HOME, or XDG_STATE_HOME, to a folder that can be written"
        ) from error
    return ResearchOrder(_OBJECTIVES, folder=str(folder))
