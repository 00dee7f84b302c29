"""Words that mean nearly the same, exclude each other, or weaken what a sentence says."""

from __future__ import annotations

from typing import Final

from moothall.text.terms import listed, stem

# One group of words of nearly the same meaning a line; a word may stand in several.
_ALIKE: Final = """
increase rise grow climb gain surge jump expand raise up higher growth upward
decrease fall drop decline shrink cut reduce lower down lessen slump dip reduction fewer
start begin launch open commence initiate inaugurate introduce
end finish stop close conclude cease terminate complete
buy purchase acquire acquisition takeover
sell sale dispose divest
company firm business corporation enterprise manufacturer maker group
city town municipality
country nation state
boss chief head director leader president chairman chair
kill die death dead fatal perish
hurt injure wound injury
win victory beat defeat triumph
lose loss
make produce create build manufacture construct generate develop form
show demonstrate reveal indicate find display
say state tell announce declare report note claim mention
use employ utilize apply usage
help assist aid support
need require must necessary requirement demand
allow permit let enable authorize
forbid prohibit ban disallow prevent
big large great huge major
small little tiny minor
fast quick rapid swift speed
old elderly aged
child kid young youth
doctor physician clinician
patient people participant subject volunteer
study trial research experiment investigation survey
drug medicine medication treatment therapy
illness disease disorder condition
car vehicle automobile
film movie picture
song track single
book novel title
write author compose
job position role post
leave depart quit resign exit step
join enter
choose select pick elect appoint name
vote ballot poll election
law act legislation statute
court judge tribunal
money fund cash finance
price cost fee charge rate
revenue sale turnover income
profit earning
year annual annually yearly
month monthly
week weekly
day daily
hour hourly
twice double
house home residence
school college university
teacher professor lecturer
war conflict battle
army military troop soldier force
attack assault strike
found establish set create
move relocate transfer shift
return come
happen occur take
get receive obtain
give provide offer supply grant
try attempt
keep retain maintain remain preserve stay
change alter modify adjust
remove delete erase drop eliminate
add include insert
default standard normally usually
error exception failure fault
return give yield
call invoke
file document
folder directory
setting option parameter argument
list sequence array
text string
fix repair correct
check verify test
important key crucial essential significant
main primary principal chief
common frequent often widespread
rare seldom infrequent uncommon
near close
whole entire full all
part portion section share
about approximately around roughly
before prior earlier
after following later subsequently
because due since owing
cause lead result produce trigger
although though despite
live reside dwell inhabit
born birth
marry wed wife husband spouse
ship vessel boat
plane aircraft jet
road street highway
river stream
sea ocean
rain precipitation
temperature heat warm hot
cold cool chill
energy power electricity
rule regulation
agree accept approve consent ratify
refuse reject decline deny
plan intend propose
aim goal target objective purpose
problem issue trouble difficulty
risk danger hazard threat
safe secure
result outcome finding
number figure amount count total
quarter three-month
half fifty
dose dosage
week seven-day
employee worker staff personnel workforce
workplace office
teach train education instruct
learn study
eat consume feed diet
food nutrition
animal species wildlife
plant tree crop
water liquid
grow cultivate
own possess hold
pay spend
publish release issue
play perform
music song
game match
team club side
player athlete
award prize honor
receive win earn
album record
place location site
area region zone district
north northern
south southern
east eastern
west western
europe european
america american
england english
france french
germany german
spain spanish
italy italian
china chinese
japan japanese
russia russian
"""
# Words that exclude each other about one thing: two sides a line.
_AGAINST: Final = """
increase rise grow climb gain surge jump expand raise upward | decrease fall drop decline shrink cut
increase rise grow climb gain surge jump expand raise upward | reduce slump dip lower
increase rise grow climb gain surge jump raise | unchanged stable constant steady flat keep kept
cut fall drop decline decrease reduce change | unchanged stable constant steady flat keep kept
higher above more greater larger longer later older better | lower below less fewer smaller
higher above more greater larger longer later older better | shorter earlier younger worse
before | after
win won victory beat | lose lost defeat
accept approve agree allow permit | reject refuse deny forbid prohibit decline
start begin open launch | end finish stop close
enable | disable
include | exclude
success succeed | fail failure
buy purchase acquire | sell sale
import | export
arrive enter join | depart leave exit
alive survive | die dead kill
public | private
legal | illegal
true | false
safe | dangerous unsafe
strong | weak
hot warm | cold cool
north northern | south southern
east eastern | west western
left | right
maximum | minimum
most | least
always | never
required mandatory compulsory obligatory | optional voluntary
internal inside | external outside
domestic | foreign
male man men | female woman women
day | night
summer | winter
ascending | descending
positive | negative
same identical | different
open | closed
full | empty
rich | poor
profit | loss
majority | minority
old | new
input | output
read | write
send | receive
local | remote
synchronous | asynchronous
encrypt | decrypt
upper | lower
acquit | convict
guilty | innocent
innocent | convict
benefit | harm
improve | worsen
support | oppose
confirm | deny
borrow | lend
employer | employee
parent | child
buyer | seller
teacher | student
wet | dry
thick | thin
wide | narrow
heavy | light
early | late
"""
# Words that make a statement weaker or stronger: a claim may not be stronger than its source.
PLANNED: Final = listed(
    "plan plans planned planning intend intends intended propose proposes proposed proposal "
    "expect expects expected hope hopes hoped want wants wanted consider considers considered "
    "considering aim "
    "aims aimed seek seeks sought will would shall scheduled forecast forecasts predicted "
    "projected announced pledged promised proposes envisages envisaged draft due upcoming"
)
POSSIBLE: Final = listed(
    "may might could can possibly perhaps potentially likely probably suggest suggests "
    "suggested appears appear seems seem suspected alleged allegedly reportedly unclear "
    "believe believes believed thought feared estimated disputed whether rumoured "
    "rumored maybe possible"
)
NEEDED: Final = listed(
    "must required requires require mandatory obliged compulsory obligatory shall need needs "
    "necessary always"
)
NONE: Final = listed("no none nobody never neither")
ALL: Final = listed(
    "all every always everyone everybody everything entire entirely whole never none "
    "nobody nothing everywhere anywhere only solely exclusively completely fully any "
    "invariably unanimous "
    "unanimously"
)
SOME: Final = listed(
    "some most many several often usually typically generally sometimes mostly largely partly "
    "few majority occasionally frequently normally mainly primarily almost nearly unless except "
    "exception excluding other than half"
)
CAUSAL: Final = listed(
    "because cause caused causes causing due led leads leading result resulted results "
    "resulting therefore thus hence owing thanks triggered triggers prompted prompting "
    "consequently made makes drove driven blamed attributed so thereby contributed contributes "
    "since reason explains explained why forced forcing following after amid"
)
SURELY_CAUSAL: Final = listed(
    "because caused causes causing cause due led therefore thus owing thanks triggered prompted "
    "consequently attributed thereby resulted"
)
DENYING: Final = listed(
    "not no never none neither nor without cannot nothing nobody lack lacks lacked lacking fail "
    "fails failed failing refuse refuses refused refusing deny denies denied unable absent "
    "absence avoid avoids avoided prevent prevents prevented reject rejects rejected hardly "
    "nicht kein keine ohne nie niemals ne pas aucun aucune sans ignore ignores ignored "
    "impossible omit omits omitted prohibit prohibits prohibited forbidden forbid forbids "
    "banned ban missing nowhere unlike exempt exclude excludes excluded acquitted acquit"
)
BACKWARD: Final = listed(
    "prohibited forbidden banned excluded rejected refused omitted ignored missing absent "
    "lacking impossible exempt"
)
"""Words that deny what stands before them: parking is prohibited."""


def _table(lines: str) -> dict[str, frozenset[int]]:
    groups: dict[str, set[int]] = {}
    for number, line in enumerate(lines.strip().splitlines()):
        for word in line.split():
            groups.setdefault(stem(word), set()).add(number)
    return {word: frozenset(numbers) for word, numbers in groups.items()}


ALIKE: Final = _table(_ALIKE)
"""The groups of nearly the same meaning that a stem is in."""
OPPOSED: Final[dict[str, frozenset[str]]] = {}
for _line in _AGAINST.strip().splitlines():
    _left, _right = (frozenset(map(stem, side.split())) for side in _line.split(" | "))
    for _one, _other in ((_left, _right), (_right, _left)):
        for _word in _one:
            OPPOSED[_word] = (OPPOSED.get(_word, frozenset()) | _other) - _one
"""The stems that each stem excludes."""

_CONVERSE: Final = (
    "win won victory beat defeat lose lost buy purchase acquire sell sale borrow lend higher "
    "above more greater larger longer later older better lower below less fewer smaller shorter "
    "earlier younger worse before after import export send receive parent child teacher student "
    "employer employee"
)
CONVERSE: Final = frozenset(map(stem, _CONVERSE.split()))
"""Words that exclude each other only while who stands before and after is the same."""
