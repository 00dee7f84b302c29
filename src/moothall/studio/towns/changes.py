"""What a person may change in a town: the part of an intervention that a page offers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict
from pydantic import Field as CheckedField

from moothall import ConfigError

if TYPE_CHECKING:
    from moothall import Society

_Text: TypeAlias = Annotated[str, CheckedField(min_length=1, max_length=2_000)]
_Name: TypeAlias = Annotated[str, CheckedField(min_length=1, max_length=200)]
_Cents: TypeAlias = Annotated[int, CheckedField(ge=1, le=10**14)]


class Change(BaseModel):
    """What a page changes in a town, by the arguments of an `Intervention`."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    news: list[_Text] = []
    close: list[_Name] = []
    open: list[_Name] = []
    close_roads: list[_Name] = []
    open_roads: list[_Name] = []
    facts: dict[_Name, bool | int | float | _Text] = {}
    pay: list[tuple[Literal["government"], _Name, _Cents]] = []
    hours: float = CheckedField(0, ge=0, le=1e6)  # after which what closes opens; 0: it does not

    def arguments_for(self, society: Society) -> dict[str, Any]:
        """Return the arguments; ConfigError if the government lacks the money, or whom to pay."""
        books = society.books
        for _, to, cents in self.pay:
            if to != "everyone" and to not in books.where:
                raise ConfigError(f"there is no citizen {to!r:.80} who could be paid")
            balance = books.balances.get("government", 0)
            total = cents * (len(books.where) if to == "everyone" else 1)
            if total > balance:
                raise ConfigError(
                    f"the government has {balance / 100:,.2f} dollars, and is to pay "
                    f"{total / 100:,.2f}"
                )
        return self.model_dump(exclude_unset=True, exclude={"hours"})
