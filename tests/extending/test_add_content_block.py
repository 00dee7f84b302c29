"""A kind of block of content is a row of one table: models, notes and doors have it there.

A user cannot add one, so this test adds it to a copy of the package.
"""

from __future__ import annotations

from tests.extending.conftest import Added

ROW = (
    (
        "BLOCKS: Final = {\n",
        '    "video_url": BlockKind("a video", "videos", "video/", "url"),\n',
    ),
)
USES = """
import json
from moothall import ModelReply, ReActAgent
from moothall.models.refusal import refuses_content
from moothall.models.remote.messages_format import messages_body
from moothall.serving.a2a.wire import ACCEPTED_MEDIA, as_part, as_block
from moothall.serving.doors.openai.message_content import BadRequest, content_of

url = "data:video/mp4;base64,AAAA"
video = {"type": "video_url", "video_url": {"url": url}}
text = {"type": "text", "text": "Look."}

assert content_of([text, video], "input") == [text, video]
try:
    content_of([{"type": "video_url", "video_url": {"url": "data:image/png;base64,AA"}}], "input")
except BadRequest as error:
    assert str(error) == "input has a video without an http(s) or data URL", error
else:
    raise AssertionError

assert "video/*" in ACCEPTED_MEDIA
assert as_block(as_part(video)) == video
link = {"type": "video_url", "video_url": {"url": "https://films.example/1"}}
assert as_part(link) == {"url": "https://films.example/1", "mediaType": "video/*"}
assert as_block(as_part(link)) == link

said = [{"role": "user", "content": [text, video]}]
of_anthropic = messages_body(said, "mine", "here")["messages"][0]["content"][1]
assert of_anthropic["source"]["media_type"] == "video/mp4"
assert refuses_content({"error": "video is not supported by this model"}, 500)


class Model:
    name, context_tokens, max_tokens = "mine", None, 100

    def __init__(self, sees):
        self.reads_images, self.prompts = sees, []

    async def complete(self, messages, actions=None, schema=None):
        self.prompts.append(json.dumps(messages))
        if len(self.prompts) == 1:
            from moothall import Call
            return ModelReply(calls=(Call("1", "film", {}),))
        return ModelReply("Seen.")


def film() -> list:
    \"\"\"Return a film.\"\"\"
    return [video]


for sees in (True, False):
    model = Model(sees)
    ReActAgent("a", model, actions=[film]).reply_sync("go")
    assert "[a video, video/mp4, 3 bytes]" in model.prompts[1]
    assert (url in model.prompts[1]) is sees
"""


def test_block_added_as_a_row_is_sent_noted_and_taken_at_the_doors(added: Added) -> None:
    added({"models/blocks.py": ROW})("-c", USES)
