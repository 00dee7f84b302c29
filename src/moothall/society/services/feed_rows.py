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
    PER_AUTHOR,
    Posted,
    authors_of,
    heat,
    shown_rank,
)

_COLUMNS: Final = ("author", "text", "topic", "posted", "likes", "heat")
_AGENT_OFFSET: Final = 1 << 31
_CHUNK: Final = 1 << 13


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
        self._hottest_cache: Any = None
        self._index: Any = None
        self._shown_posts: dict[int, Posted] = {}  # posts that were shown, as they are

    @property
    def next_number(self) -> int:
        """The number of the next post."""
        return self.first + len(self.author)

    # -- agents and texts --------------------------------------------------------------------------

    def list_index(self, agents: Array) -> Array:
        """Return agents' indices in the arrays: strangers follow all citizens."""
        index = np.where(agents >= 0, agents, len(self.population) + FIRST_STRANGER - agents)
        size = int(index.max(initial=0)) + 1
        if size > len(self.follows.count):
            self.follows = self.follows.extend(size + 16 - len(self.follows.count))
            self._hottest_cache = None
        return index

    def encode(self, want: Want, citizens: Mapping[str, object]) -> dict[str, Any]:
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
        for position in np.flatnonzero(texts < -1).tolist():
            length[position] = len(self._texts.get(texts.item(position), ""))
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
        distinct, positions = np.unique(numbers, return_inverse=True)
        return np.array([*map(self._id, distinct.tolist())], object)[positions].tolist()  # type: ignore[no-any-return]

    # -- settling ----------------------------------------------------------------------------------

    def publish(self, author: Array, text: Array, topic: Array, now: int) -> Array:
        """Publish posts; return their numbers."""
        count = len(author)
        numbers = self.next_number + np.arange(count)
        if not count:
            return numbers
        rest = (np.full(count, now), np.zeros(count, np.int64), np.full(count, heat(0, now)))
        for name, values in zip(_COLUMNS, (author, text, topic, *rest), strict=True):
            setattr(self, name, np.concatenate([getattr(self, name), values])[-self.most :])
        dropped = int(numbers[-1]) + 1 - len(self.author) - self.first
        for number in range(self.first, self.first + dropped):
            self._shown_posts.pop(number, None)
        self.first += dropped
        if dropped:
            self._liked = self._liked[np.searchsorted(self._liked, self.first << 32) :]
            in_use = {*self.text.tolist(), *self.topic.tolist()} if self._texts else ()
            self._texts = {number: t for number, t in self._texts.items() if number in in_use}
        self._hottest_cache = None
        return numbers

    def follow(self, followers: Array, followed: Array) -> None:
        """Add follows that are new, in this order."""
        pairs = followers * (1 << 32) + followed
        first = np.sort(np.unique(pairs, return_index=True)[1])
        lists = self.list_index(followers[first])
        is_new = ~self.follows.contains(lists, followed[first])
        self.follows.append(lists[is_new], followed[first][is_new])

    def like(self, agents: Array, numbers: Array) -> tuple[Array, Array]:
        """Like posts; return which likes were accepted, and the post's likes after each."""
        valid = np.flatnonzero((numbers >= self.first) & (numbers < self.next_number))
        keys = _like_keys(numbers[valid], agents[valid])
        order = np.argsort(keys, kind="stable")
        valid, keys = valid[order], keys[order]
        post_index = numbers[valid] - self.first
        is_accepted = (self.author[post_index] != agents[valid]) & ~self._is_liked(keys)
        is_accepted[1:] &= keys[1:] != keys[:-1]  # drop repeated likes
        valid, keys, post_index = valid[is_accepted], keys[is_accepted], post_index[is_accepted]
        new_likes = np.bincount(post_index, minlength=len(self.likes))
        order = np.lexsort((valid, post_index))  # of a post, as they were given
        valid, post_index = valid[order], post_index[order]
        turn = np.arange(len(post_index)) - (np.cumsum(new_likes) - new_likes)[post_index]
        done, count = np.zeros(len(agents), bool), np.zeros(len(agents), np.int64)
        done[valid], count[valid] = True, self.likes[post_index] + turn + 1
        self.likes = self.likes + new_likes
        posts = np.flatnonzero(new_likes)
        self.heat[posts] = heat(self.likes[posts], self.posted[posts])
        for number in (posts + self.first).tolist():
            self._shown_posts.pop(number, None)
        self._liked = np.sort(np.concatenate([self._liked, keys]), kind="stable")
        self._hottest_cache = None
        return done, count

    def liked(self, numbers: Array, agents: Array) -> Array:
        """Return whether agents liked posts."""
        return self._is_liked(_like_keys(numbers, agents))

    def _is_liked(self, keys: Array) -> Array:
        positions = np.searchsorted(self._liked, keys)
        is_there = positions < len(self._liked)
        is_there[is_there] = self._liked[positions[is_there]] == keys[is_there]
        return is_there

    def likers(self, number: int) -> list[str]:
        """Return the ids of the agents who liked a post."""
        low, high = np.searchsorted(self._liked, [number << 32, (number + 1) << 32])
        return [self._id(each) for each in _agents_of(self._liked[low:high]).tolist()]

    # -- showing -----------------------------------------------------------------------------------

    def hottest(self) -> tuple[Array, Array]:
        """Return the indices of the hottest posts, rising, and their authors: 0, 1 and so on."""
        if self._hottest_cache is None:
            count = len(self.heat)
            hot = np.arange(count)
            if count > HOTTEST:
                hot = np.argpartition(self.heat * count + hot, -HOTTEST)[-HOTTEST:]
                hot.sort()
            author_lists = self.list_index(self.author)
            authors, author_index = np.unique(author_lists[hot], return_inverse=True)
            self._index = authors_of(author_lists, authors, len(self.follows.count))
            self._hottest_cache = hot, author_index.reshape(-1)
        hottest: tuple[Array, Array] = self._hottest_cache
        return hottest

    # `about` has the column of `interest` for the topic of each post, the last for no topic.
    def shown_rows(self, agents: Array, interest: Array, topics: Array, limit: int) -> Array:
        """Return the numbers of `Feed.shown` for rising rows, then 0."""
        lists = self.list_index(agents)
        hot, of_author = self.hottest()
        numbers = np.zeros((len(agents), limit), np.int64)
        if not len(hot):
            return numbers
        if len(agents) > _CHUNK:  # the arrays of a part fit the processor's cache
            parts = [slice(each, each + _CHUNK) for each in range(0, len(agents), _CHUNK)]
            parts_shown = [
                self.shown_rows(agents[each], interest[each], topics, limit) for each in parts
            ]
            return np.concatenate(parts_shown)
        follow, readers, post = self._by_follows(lists)
        # A hot post's key: (its rank − `lowest`) · 64 + its index among the hot posts.
        lowest = int(self.heat[hot].min())
        highest = shown_rank(int(self.heat[hot].max()) - lowest, int(interest.max(initial=0)), 1)
        dtype = np.int32 if (highest + 1) * 64 < 1 << 31 else np.int64
        bonus = (shown_rank(0, interest, 0) * 64).astype(dtype)
        base = ((self.heat[hot] - lowest) * 64 + np.arange(len(hot))).astype(dtype)
        more: Any = dtype(shown_rank(0, 0, 1) * 64)
        bit = of_author.astype(np.uint64)
        author = self.list_index(self.author[hot])
        row = np.minimum(np.searchsorted(lists, author), len(lists) - 1)
        key = np.take(bonus, topics[hot], axis=1)
        key += base
        selected = np.flatnonzero(follow)
        key[selected] += ((follow[selected, None] >> bit) & np.uint64(1)).astype(dtype) * more
        by_self = np.flatnonzero(lists[row] == author)
        key[row[by_self], by_self] = -1
        if len(hot) > limit:
            key = np.partition(key, len(hot) - limit, axis=1)[:, -limit:]
        key = np.sort(key, axis=1)[:, ::-1]
        number = np.maximum(key, 0) & 63
        best = slice(0, key.shape[1])
        numbers[:, best] = np.where(key < 0, 0, hot[number] + self.first)
        rank = key // 64 + lowest
        more = shown_rank(self.heat[post], interest[readers, topics[post]], 1)
        if rank.shape[1] == limit:  # drop others below all shown posts
            selected = (more >= rank[readers, -1]) | (numbers[readers, -1] == 0)
            readers, post, more = readers[selected], post[selected], more[selected]
        if len(readers):
            self._with_others(numbers, rank, (readers, post, more))
        return numbers

    def _by_follows(self, agents: Array) -> tuple[Array, Array, Array]:
        """Return follows of hot posts' authors, as bits; and rows and indices of other posts."""
        follow = np.zeros(len(agents), np.uint64)
        pairs = [np.zeros((2, 0), np.int64)]
        count, (author_of, last, hot_of) = self.follows.count[agents], self._index
        for slot, row, numbers in self.follows.parts(agents):
            author = author_of[self.list_index(numbers.astype(np.int64))]
            hot = hot_of[author]
            is_hot_author = np.flatnonzero(hot >= 0)  # a row is once in a slot
            follow[row[is_hot_author]] |= np.uint64(1) << hot[is_hot_author].astype(np.uint64)
            recent = (slot >= count[row] - AUTHORS) & (author >= 0)
            pairs.append(np.stack([row[recent], author[recent]]))
        row, author = np.concatenate(pairs, 1)
        post = last[author].reshape(-1)
        row = np.repeat(row, PER_AUTHOR)
        is_hot = np.zeros(len(self.author), bool)
        is_hot[self.hottest()[0]] = True
        is_new = (post >= 0) & ~is_hot[np.maximum(post, 0)]
        return follow, row[is_new], post[is_new]

    def _with_others(self, numbers: Array, rank: Array, candidates: tuple[Array, ...]) -> None:
        """Merge other posts of followed authors into the hot posts shown."""
        readers, post, post_ranks = candidates  # the row, the post and its rank
        shift, limit = 1 << len(self.author).bit_length(), numbers.shape[1]
        rows = np.unique(readers)
        hot = numbers[rows, : rank.shape[1]]
        row = np.concatenate([np.repeat(rows, hot.shape[1]), readers])
        ranked = rank[rows].astype(np.int64) * shift + hot - self.first
        key = np.where(hot > 0, ranked, -1).reshape(-1)
        key = np.concatenate([key, post_ranks * shift + post])
        order = np.lexsort((-key, row))
        row, key = row[order], key[order]
        slot = np.arange(len(row)) - np.searchsorted(row, row)
        best = (slot < limit) & (key >= 0)
        row, slot = row[best], slot[best]
        numbers[rows] = 0
        numbers[row, slot] = key[best] % shift + self.first

    def shown_to(self, id: str, interests: Mapping[str, int], limit: int) -> list[Posted]:
        """Return the highest-ranked posts for one citizen, the best first."""
        reader = self.list_index(self.numbers((id,)))  # first: it may add a list of follows
        candidates = dict.fromkeys(self.hottest()[0].tolist())
        numbers, last, _ = self._index
        follows = self.follows.numbers_of(int(reader[0]))
        for author in follows[-AUTHORS:]:
            index = author if author >= 0 else len(self.population) + FIRST_STRANGER - author
            at = numbers[index] if index < len(numbers) else -1
            candidates |= dict.fromkeys(last[at][last[at] >= 0].tolist() if at >= 0 else ())
        followed = {self._id(each) for each in follows}
        posts = (self._post(number + self.first) for number in candidates)
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
        index = number - self.first
        return Posted(
            number,
            self._id(int(self.author[index])),
            self._text(int(self.text[index])) or "",
            self._text(int(self.topic[index])),  # type: ignore[arg-type]
            int(self.posted[index]),
            dict.fromkeys(self.likers(number)),
            int(self.heat[index]),
        )

    # -- state -------------------------------------------------------------------------------------

    def posts(self) -> dict[int, Posted]:
        """Return all posts by number."""
        return {number: self.post(number) for number in range(self.first, self.next_number)}

    def follows_by_id(self) -> dict[str, list[str]]:
        """Return the ids that each agent follows."""
        followers = np.flatnonzero(self.follows.count)
        count = len(self.population)
        ids = self._ids(np.where(followers < count, followers, FIRST_STRANGER + count - followers))
        lists = map(self.follows.numbers_of, followers.tolist())
        return {id: [*map(self._id, each)] for id, each in zip(ids, lists, strict=True)}

    def state(self) -> dict[str, Any]:
        """Return the state of `Feed.state_dict`."""
        likers, follows = self._ids(_agents_of(self._liked)), self.follows_by_id()
        numbers = np.arange(self.first, self.next_number + 1)
        ends = np.searchsorted(self._liked, numbers << 32).tolist()
        posts = zip(
            *(numbers[:-1].tolist(), self._ids(self.author)),
            *(map(self._text, each.tolist()) for each in (self.text, self.topic)),
            self.posted.tolist(),
            (sorted(likers[low:high], key=id_order) for low, high in pairwise(ends)),
            strict=True,
        )
        return {
            "next": self.next_number,
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
        self._liked = np.sort(_like_keys(np.array(number, np.int64).repeat(self.likes), likers))
        counts = np.array([len(followed) for followed in follows.values()], np.int64)
        followed = self.numbers(id for each in follows.values() for id in each)
        self.follow(self.numbers(follows).repeat(counts), followed)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state that an engine's worker needs; it has only the population's length."""
        return {**vars(self), "population": range(len(self.population))}


def _agents_of(likes: Array) -> Array:
    """Return the agents of likes, as numbered in wants."""
    return (likes & 0xFFFFFFFF) - _AGENT_OFFSET


def _like_keys(numbers: Array, agents: Array) -> Array:
    """Return likes as one number each, which sort by post."""
    return (numbers << 32) + agents + _AGENT_OFFSET
