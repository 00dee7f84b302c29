"""The posts, likes and follows of a feed, as arrays; without citizens all are strangers."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, Final

from moothall.society.arrays import Array, np
from moothall.society.columns.lists import Lists
from moothall.society.columns.register import FIRST_STRANGER, Register
from moothall.society.kernel.wants import AGENT_ID, TEXT, Want, field_kinds, id_order
from moothall.society.services.posts import (
    AUTHORS,
    HOTTEST,
    OF_AN_AUTHOR,
    Posted,
    authors_of,
    heat,
    shown_rank,
)

_PARTS: Final = ("author", "text", "topic", "posted", "likes", "heat")
_MIDDLE: Final = 1 << 31
_AT_ONCE: Final = 1 << 13


class RowFeed:
    """A feed's posts in parallel arrays; the post `first` has index 0."""

    def __init__(self, population: Register, most: int) -> None:
        self.population = population
        self.most = most
        self.first: int = 1  # the number of the oldest post
        self.author: Array  # numbered as in wants
        self.text: Array  # its number; below −1 if it is not one of the population's words
        self.topic: Array  # numbered like texts; −1 for None
        self.posted: Array  # in seconds since the start
        self.likes: Array
        self.heat: Array
        self.author = self.text = self.topic = self.posted = self.likes = self.heat = np.zeros(
            0, np.int64
        )
        self.follows: Lists = Lists(len(population) + 16)  # whom each follows, as in wants
        self._liked = np.zeros(0, np.int64)
        self._texts: dict[int, str] = {}
        self._last_text = -1
        self._lengths: Array = np.zeros(0, np.int64)
        self._hot: Any = None
        self._author: Any = None
        self._shown_posts: dict[int, Posted] = {}  # posts that were shown, as they are

    @property
    def next(self) -> int:
        """The number of the next post."""
        return self.first + len(self.author)

    # -- agents and texts --------------------------------------------------------------------------

    def place(self, agents: Array) -> Array:
        """Return agents' indices in the arrays: strangers follow all citizens."""
        place = np.where(agents >= 0, agents, len(self.population) + FIRST_STRANGER - agents)
        most = int(place.max(initial=0)) + 1
        if most > len(self.follows.count):
            self.follows = self.follows.extend(most + 16 - len(self.follows.count))
            self._hot = None
        return place

    def encoded(self, want: Want, citizens: Mapping[str, object]) -> dict[str, Any]:
        """Return the fields of a want in arrays of a number, −1 where none stands for a value."""
        fields = {}
        for name, content in field_kinds(type(want)).items():
            value = getattr(want, name)
            if content == AGENT_ID:
                value = self.population.number_of(value) if value in citizens else -1
            elif content == TEXT:
                value = self._number(value)
            elif type(value) is not int or not 0 <= value < 1 << 31:
                value = -1
            fields[name] = np.array([value])
        return fields

    def forget(self, fields: Mapping[str, Any]) -> None:
        """Drop the texts that a refused want brought."""
        for number in fields.values():
            self._texts.pop(number.item(), None)

    def length(self, texts: Array) -> Array:
        """Return the characters of texts; 0 for None."""
        words = self.population.words
        if len(self._lengths) < len(words):  # agents bring texts of their own
            self._lengths = np.array([len(word) for word in words])
        length = np.where(texts < 0, 0, self._lengths[np.maximum(texts, 0)])
        for at in np.flatnonzero(texts < -1).tolist():
            length[at] = len(self._texts.get(texts.item(at), ""))
        return length

    def numbers(self, ids: Iterable[str]) -> Array:
        """Return the numbers of agents."""
        ids = [*ids]
        numbers = {id: self.population.number_of(id) for id in dict.fromkeys(ids)}
        return np.array([numbers[id] for id in ids], np.int64)

    def _text(self, number: int) -> str | None:
        text = self._texts.get(number)
        return self.population.decode(TEXT, number) if text is None else text

    def _number(self, text: object) -> int:
        """Return the number of a text; store a text that is not among the words."""
        if not isinstance(text, str):
            return -1
        word = self.population.word_numbers.get(text)
        if word is not None:
            return word
        self._last_text -= 1
        self._texts[self._last_text] = text
        return self._last_text

    def _id(self, number: int) -> str:
        return str(self.population.decode(AGENT_ID, number))

    def _ids(self, numbers: Array) -> list[str]:
        each, at = np.unique(numbers, return_inverse=True)
        return np.array([*map(self._id, each.tolist())], object)[at].tolist()  # type: ignore[no-any-return]

    # -- settling ----------------------------------------------------------------------------------

    def publish(self, author: Array, text: Array, topic: Array, now: int) -> Array:
        """Publish posts; return their numbers."""
        count = len(author)
        numbers = self.next + np.arange(count)
        if not count:
            return numbers
        same = (np.full(count, now), np.zeros(count, np.int64), np.full(count, heat(0, now)))
        for name, values in zip(_PARTS, (author, text, topic, *same), strict=True):
            setattr(self, name, np.concatenate([getattr(self, name), values])[-self.most :])
        dropped = int(numbers[-1]) + 1 - len(self.author) - self.first
        for number in range(self.first, self.first + dropped):
            self._shown_posts.pop(number, None)
        self.first += dropped
        if dropped:
            self._liked = self._liked[np.searchsorted(self._liked, self.first << 32) :]
            in_use = {*self.text.tolist(), *self.topic.tolist()} if self._texts else ()
            self._texts = {number: t for number, t in self._texts.items() if number in in_use}
        self._hot = None
        return numbers

    def follow(self, followers: Array, whom: Array) -> None:
        """Add follows that are new, in this order."""
        pairs = followers * (1 << 32) + whom
        first = np.sort(np.unique(pairs, return_index=True)[1])
        place = self.place(followers[first])
        new = ~self.follows.contains(place, whom[first])
        self.follows.append(place[new], whom[first][new])

    def like(self, agents: Array, numbers: Array) -> tuple[Array, Array]:
        """Like posts; return which likes were accepted, and the post's likes after each."""
        valid = np.flatnonzero((numbers >= self.first) & (numbers < self.next))
        keys = _key(numbers[valid], agents[valid])
        order = np.argsort(keys, kind="stable")
        valid, keys = valid[order], keys[order]
        at = numbers[valid] - self.first
        fine = (self.author[at] != agents[valid]) & ~self._has(keys)
        fine[1:] &= keys[1:] != keys[:-1]  # drop repeated likes
        valid, keys, at = valid[fine], keys[fine], at[fine]
        many = np.bincount(at, minlength=len(self.likes))
        order = np.lexsort((valid, at))  # of a post, as they were given
        valid, at = valid[order], at[order]
        turn = np.arange(len(at)) - (np.cumsum(many) - many)[at]
        done, count = np.zeros(len(agents), bool), np.zeros(len(agents), np.int64)
        done[valid], count[valid] = True, self.likes[at] + turn + 1
        self.likes = self.likes + many
        posts = np.flatnonzero(many)
        self.heat[posts] = heat(self.likes[posts], self.posted[posts])
        for number in (posts + self.first).tolist():
            self._shown_posts.pop(number, None)
        self._liked = np.sort(np.concatenate([self._liked, keys]), kind="stable")
        self._hot = None
        return done, count

    def liked(self, numbers: Array, agents: Array) -> Array:
        """Return whether agents liked posts."""
        return self._has(_key(numbers, agents))

    def _has(self, keys: Array) -> Array:
        at = np.searchsorted(self._liked, keys)
        there = at < len(self._liked)
        there[there] = self._liked[at[there]] == keys[there]
        return there

    def likers(self, number: int) -> list[str]:
        """Return the ids of the agents who liked a post."""
        low, high = np.searchsorted(self._liked, [number << 32, (number + 1) << 32])
        return [self._id(each) for each in _agents(self._liked[low:high]).tolist()]

    # -- showing -----------------------------------------------------------------------------------

    def hottest(self) -> tuple[Array, Array]:
        """Return the indices of the hottest posts, rising, and their authors: 0, 1 and so on."""
        if self._hot is None:
            count = len(self.heat)
            hot = np.arange(count)
            if count > HOTTEST:
                hot = np.argpartition(self.heat * count + hot, -HOTTEST)[-HOTTEST:]
                hot.sort()
            place = self.place(self.author)
            authors, which = np.unique(place[hot], return_inverse=True)
            self._author = authors_of(place, authors, len(self.follows.count))
            self._hot = hot, which.reshape(-1)
        hottest: tuple[Array, Array] = self._hot
        return hottest

    # `about` has the column of `interest` for the topic of each post, the last for no topic.
    def shown_rows(self, agents: Array, interest: Array, about: Array, limit: int) -> Array:
        """Return the numbers of `Feed.shown` for rising rows, then 0."""
        at = self.place(agents)
        hot, of_author = self.hottest()
        numbers = np.zeros((len(agents), limit), np.int64)
        if not len(hot):
            return numbers
        if len(agents) > _AT_ONCE:  # the arrays of a part fit the processor's cache
            parts = [slice(each, each + _AT_ONCE) for each in range(0, len(agents), _AT_ONCE)]
            parts_shown = [
                self.shown_rows(agents[each], interest[each], about, limit) for each in parts
            ]
            return np.concatenate(parts_shown)
        follow, readers, post = self._by_follows(at)
        # A hot post's key: (its rank − `least`) · 64 + its index among the hot posts.
        least = int(self.heat[hot].min())
        highest = shown_rank(int(self.heat[hot].max()) - least, int(interest.max(initial=0)), 1)
        kind = np.int32 if (highest + 1) * 64 < 1 << 31 else np.int64
        bonus = (shown_rank(0, interest, 0) * 64).astype(kind)
        base = ((self.heat[hot] - least) * 64 + np.arange(len(hot))).astype(kind)
        more: Any = kind(shown_rank(0, 0, 1) * 64)
        bit = of_author.astype(np.uint64)
        author = self.place(self.author[hot])
        row = np.minimum(np.searchsorted(at, author), len(at) - 1)
        key = np.take(bonus, about[hot], axis=1)
        key += base
        some = np.flatnonzero(follow)
        key[some] += ((follow[some, None] >> bit) & np.uint64(1)).astype(kind) * more
        own = np.flatnonzero(at[row] == author)
        key[row[own], own] = -1
        if len(hot) > limit:
            key = np.partition(key, len(hot) - limit, axis=1)[:, -limit:]
        key = np.sort(key, axis=1)[:, ::-1]
        number = np.maximum(key, 0) & 63
        best = slice(0, key.shape[1])
        numbers[:, best] = np.where(key < 0, 0, hot[number] + self.first)
        rank = key // 64 + least
        more = shown_rank(self.heat[post], interest[readers, about[post]], 1)
        if rank.shape[1] == limit:  # drop others below all shown posts
            some = (more >= rank[readers, -1]) | (numbers[readers, -1] == 0)
            readers, post, more = readers[some], post[some], more[some]
        if len(readers):
            self._with_others(numbers, rank, (readers, post, more))
        return numbers

    def _by_follows(self, agents: Array) -> tuple[Array, Array, Array]:
        """Return follows of hot posts' authors, as bits; and rows and indices of other posts."""
        follow = np.zeros(len(agents), np.uint64)
        pairs = [np.zeros((2, 0), np.int64)]
        count, (of, last, of_hot) = self.follows.count[agents], self._author
        for slot, row, numbers in self.follows.parts(agents):
            author = of[self.place(numbers.astype(np.int64))]
            hot = of_hot[author]
            some = np.flatnonzero(hot >= 0)  # a row is once in a slot
            follow[row[some]] |= np.uint64(1) << hot[some].astype(np.uint64)
            recent = (slot >= count[row] - AUTHORS) & (author >= 0)
            pairs.append(np.stack([row[recent], author[recent]]))
        row, author = np.concatenate(pairs, 1)
        post = last[author].reshape(-1)
        row = np.repeat(row, OF_AN_AUTHOR)
        is_hot = np.zeros(len(self.author), bool)
        is_hot[self.hottest()[0]] = True
        new = (post >= 0) & ~is_hot[np.maximum(post, 0)]
        return follow, row[new], post[new]

    def _with_others(self, numbers: Array, rank: Array, candidates: tuple[Array, ...]) -> None:
        """Merge other posts of followed authors into the hot posts shown."""
        readers, post, more = candidates  # the row, the post and its rank
        shift, limit = 1 << len(self.author).bit_length(), numbers.shape[1]
        mine = np.unique(readers)
        old = numbers[mine, : rank.shape[1]]
        row = np.concatenate([np.repeat(mine, old.shape[1]), readers])
        ranked = rank[mine].astype(np.int64) * shift + old - self.first
        key = np.where(old > 0, ranked, -1).reshape(-1)
        key = np.concatenate([key, more * shift + post])
        order = np.lexsort((-key, row))
        row, key = row[order], key[order]
        slot = np.arange(len(row)) - np.searchsorted(row, row)
        best = (slot < limit) & (key >= 0)
        row, slot = row[best], slot[best]
        numbers[mine] = 0
        numbers[row, slot] = key[best] % shift + self.first

    def shown_to(self, id: str, interests: Mapping[str, int], limit: int) -> list[Posted]:
        """Return the highest-ranked posts for one citizen, the best first."""
        reader = self.place(self.numbers((id,)))  # first: it may add a list of follows
        candidates = dict.fromkeys(self.hottest()[0].tolist())
        by, last, _ = self._author
        follows = self.follows.numbers_of(int(reader[0]))
        for author in follows[-AUTHORS:]:
            index = author if author >= 0 else len(self.population) + FIRST_STRANGER - author
            at = by[index] if index < len(by) else -1
            candidates |= dict.fromkeys(last[at][last[at] >= 0].tolist() if at >= 0 else ())
        followed = {self._id(each) for each in follows}
        posts = (self._post(at + self.first) for at in candidates)
        return heapq.nlargest(
            limit,
            (post for post in posts if post.author != id),
            key=lambda post: (
                shown_rank(post.heat, interests.get(post.topic, 0), post.author in followed),
                post.number,
            ),
        )

    def _post(self, number: int) -> Posted:
        """Return a post by its number, and keep it for the next who is shown it."""
        if (post := self._shown_posts.get(number)) is None:
            post = self._shown_posts[number] = self.post(number)
        return post

    def post(self, number: int) -> Posted:
        """Return a post by its number."""
        at = number - self.first
        return Posted(
            number,
            self._id(int(self.author[at])),
            self._text(int(self.text[at])) or "",
            self._text(int(self.topic[at])),  # type: ignore[arg-type]
            int(self.posted[at]),
            dict.fromkeys(self.likers(number)),
            int(self.heat[at]),
        )

    # -- state -------------------------------------------------------------------------------------

    def posts(self) -> dict[int, Posted]:
        """Return all posts by number."""
        return {number: self.post(number) for number in range(self.first, self.next)}

    def followed(self) -> dict[str, list[str]]:
        """Return the ids that each agent follows."""
        some = np.flatnonzero(self.follows.count)
        count = len(self.population)
        ids = self._ids(np.where(some < count, some, FIRST_STRANGER + count - some))
        lists = map(self.follows.numbers_of, some.tolist())
        return {id: [*map(self._id, each)] for id, each in zip(ids, lists, strict=True)}

    def state(self) -> dict[str, Any]:
        """Return the state of `Feed.state_dict`."""
        likers, follows = self._ids(_agents(self._liked)), self.followed()
        numbers = np.arange(self.first, self.next + 1)
        ends = np.searchsorted(self._liked, numbers << 32).tolist()
        posts = zip(
            *(numbers[:-1].tolist(), self._ids(self.author)),
            *(map(self._text, each.tolist()) for each in (self.text, self.topic)),
            self.posted.tolist(),
            (sorted(likers[low:high], key=id_order) for low, high in pairwise(ends)),
            strict=True,
        )
        return {
            "next": self.next,
            "posts": [[*post] for post in posts],
            "follows": {id: follows[id] for id in sorted(follows, key=id_order)},
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `Feed.state_dict`."""
        vars(self).update(vars(RowFeed(self.population, self.most)))
        posts, follows = state["posts"][-self.most :], state["follows"]
        self.first = state["next"] - len(posts)
        number, author, text, topic, posted, liked = zip(*posts, strict=True) if posts else [()] * 6
        self.author = self.numbers(author)
        self.text = np.array([self._number(each) for each in text], np.int64)
        self.topic = np.array([self._number(each) for each in topic], np.int64)
        self.posted = np.array(posted, np.int64)
        self.likes = np.array([len(each) for each in liked], np.int64)
        self.heat = heat(self.likes, self.posted)
        likers = self.numbers(id for each in liked for id in each)
        self._liked = np.sort(_key(np.array(number, np.int64).repeat(self.likes), likers))
        many = np.array([len(whom) for whom in follows.values()], np.int64)
        whom = self.numbers(id for each in follows.values() for id in each)
        self.follow(self.numbers(follows).repeat(many), whom)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state that an engine's worker needs; it has only the population's length."""
        return {**vars(self), "population": range(len(self.population))}


def _agents(likes: Array) -> Array:
    """Return the agents of likes, as numbered in wants."""
    return (likes & 0xFFFFFFFF) - _MIDDLE


def _key(numbers: Array, agents: Array) -> Array:
    """Return likes as one number each, which sort by post."""
    return (numbers << 32) + agents + _MIDDLE
