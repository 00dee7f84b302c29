"""The public names of this package: `__init__.py` loads them from here."""

from moothall.society.blocks.citizen_block import CitizenBlock as CitizenBlock
from moothall.society.blocks.citizen_block import CitizenBlockParams as CitizenBlockParams
from moothall.society.blocks.citizen_block import all_blocks as all_blocks
from moothall.society.blocks.economy import EconomyBlock as EconomyBlock
from moothall.society.blocks.economy import EconomyBlockParams as EconomyBlockParams
from moothall.society.blocks.feed import FeedBlock as FeedBlock
from moothall.society.blocks.feed import FeedBlockParams as FeedBlockParams
from moothall.society.blocks.mobility import MobilityBlock as MobilityBlock
from moothall.society.blocks.mobility import MobilityBlockParams as MobilityBlockParams
from moothall.society.blocks.needs import Need as Need
from moothall.society.blocks.needs import NeedsBlock as NeedsBlock
from moothall.society.blocks.needs import NeedsBlockParams as NeedsBlockParams
from moothall.society.blocks.other import OtherBlock as OtherBlock
from moothall.society.blocks.other import OtherBlockParams as OtherBlockParams
from moothall.society.blocks.plan import PlanBlock as PlanBlock
from moothall.society.blocks.plan import PlanBlockParams as PlanBlockParams
from moothall.society.blocks.reflection import ReflectionBlock as ReflectionBlock
from moothall.society.blocks.reflection import ReflectionBlockParams as ReflectionBlockParams
from moothall.society.blocks.social import SocialBlock as SocialBlock
from moothall.society.blocks.social import SocialBlockParams as SocialBlockParams
