"""Skills: what a model is told of them, what it may read and run, and which folders are refused."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import skills_ref

from moothall import (
    ACCESS_DENIED,
    ACCESS_PERMITTED,
    Action,
    CallbackApprover,
    ConfigError,
    DefinitionError,
    Journal,
    NoSuchFile,
    ReActAgent,
    RunMismatch,
    ScriptedModel,
    Skills,
    check_skill,
)
from moothall.foundation.errors import FileError

ROOT = Path(__file__).resolve().parents[2]


def skill(folder: Path, name: str = "pdf", text: str | None = None, **files: str) -> Path:
    """A skill below a folder."""
    made = folder / name
    made.mkdir(parents=True)
    about = f"---\nname: {name}\ndescription: Reads {name} files.\n---\n\nRead them well.\n"
    (made / "SKILL.md").write_text(about if text is None else text)
    for path, content in files.items():
        target = made / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)
    return made


def call(action: Action, **args: Any) -> Any:
    """What an action returns."""
    result = action.execute(**args)
    return asyncio.run(result) if asyncio.iscoroutine(result) else result


def test_skills_prompt_lists_names_and_descriptions(tmp_path: Path) -> None:
    skill(tmp_path)
    skill(tmp_path, "xls")
    seen: list[Any] = []

    def answer(messages: Any, actions: Any) -> str:
        seen.append((messages, [each.name for each in actions]))
        return "ok"

    agent = ReActAgent("a", ScriptedModel(answer), actions=[Skills(tmp_path)], system_prompt="Hi.")
    agent.reply_sync("Do it")
    messages, actions = seen[0]
    assert messages[0]["role"] == "system"
    assert re.search(r"^Hi\.\n\n# Skills\n.*\n- pdf: .*\n- xls: ", messages[0]["content"])
    assert actions == ["load_skill", "read_skill_file", "run_skill_script"]


def test_skills_load_returns_instructions_and_file_names(tmp_path: Path) -> None:
    skill(tmp_path, **{"references/forms.md": "Forms.", "notes.txt": "Notes."})
    offers = Skills(tmp_path).offers
    text = call(offers["load_skill"], name="pdf")
    assert text.startswith("Read them well.")
    assert text.endswith("\n- notes.txt\n- references/forms.md")
    assert call(offers["read_skill_file"], skill="pdf", file_name="references/forms.md") == "Forms."


def test_skills_one_skill_may_be_the_folder(tmp_path: Path) -> None:
    assert list(Skills(skill(tmp_path)).skills) == ["pdf"]


def test_skills_unknown_names_say_what_there_is(tmp_path: Path) -> None:
    skill(tmp_path)
    offers = Skills(tmp_path).offers
    with pytest.raises(NoSuchFile, match=r"there is no skill 'pfd'.*pdf"):
        call(offers["load_skill"], name="pfd")
    with pytest.raises(FileError):
        call(offers["read_skill_file"], skill="pdf", file_name="nothing.md")


@pytest.mark.parametrize("name", ("../secret.txt", "/etc/passwd", "link.txt", "scripts/../../x"))
def test_skills_files_outside_the_skill_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    made = skill(tmp_path / "skills", **{"scripts/a.py": ""})
    (made / "link.txt").symlink_to(tmp_path / "secret.txt")
    offers = Skills(tmp_path / "skills").offers
    with pytest.raises(FileError):
        call(offers["read_skill_file"], skill="pdf", file_name=name)
    with pytest.raises(FileError):
        call(offers["run_skill_script"], skill="pdf", script=name)


def test_skills_of_an_editor_that_writes_a_mark_of_its_encoding_are_read(tmp_path: Path) -> None:
    made = skill(tmp_path) / "SKILL.md"
    made.write_text("\ufeff" + made.read_text().replace("\n", "\r\n"))
    assert check_skill(made.parent) == []
    assert call(Skills(tmp_path).offers["load_skill"], name="pdf").startswith("Read them well.")


def test_skills_script_is_run_with_its_arguments(tmp_path: Path) -> None:
    skill(tmp_path, **{"scripts/say.py": "import sys\nprint(sys.argv[1:])\n"})
    run = Skills(tmp_path).offers["run_skill_script"]
    said = call(run, skill="pdf", script="scripts/say.py", args=["a b", "$HOME; ls"])
    assert said == "['a b', '$HOME; ls']\n"


def test_skills_script_that_nothing_can_run_says_which_can(tmp_path: Path) -> None:
    skill(tmp_path, **{"scripts/say.txt": "hello\n"})
    run = Skills(tmp_path).offers["run_skill_script"]
    with pytest.raises(FileError, match=r"it is not executable, and its name ends in none of \.py"):
        call(run, skill="pdf", script="scripts/say.txt")


def test_skills_with_many_files_load_with_200_names_and_how_many_more(tmp_path: Path) -> None:
    skill(tmp_path, **{f"notes/{number:03}.txt": "" for number in range(201)})
    text = call(Skills(tmp_path).offers["load_skill"], name="pdf")
    assert text.endswith("\n- notes/199.txt\nand 1 more")


def test_skills_script_asks_first(tmp_path: Path) -> None:
    skill(tmp_path, **{"scripts/say.sh": "echo hello\n"})
    asked: list[Any] = []

    def approve(request: Any) -> bool:
        asked.append((request.action, request.args))
        return len(asked) > 1

    wanted = {"name": "run_skill_script", "args": {"skill": "pdf", "script": "scripts/say.sh"}}
    model = ScriptedModel([wanted, "done", wanted, "done"])
    agent = ReActAgent("a", model, actions=[Skills(tmp_path)], approver=CallbackApprover(approve))
    (first,) = agent.reply_sync("Say it").steps
    (second,) = agent.reply_sync("Say it all the same").steps
    assert first.error is not None
    assert second.result is not None
    assert second.result["result"] == "hello\n"
    assert asked == [("run_skill_script", wanted["args"])] * 2


def test_skills_script_changes_nothing_of_its_skill(tmp_path: Path) -> None:
    made = skill(tmp_path, **{"scripts/spoil.sh": 'echo x > "$(dirname "$0")/../SKILL.md"\nls\n'})
    work = tmp_path / "work"
    work.mkdir()
    before = (made / "SKILL.md").read_text()
    run = Skills(made, work=work, sandbox="bwrap").offers["run_skill_script"]
    assert "Read-only" in call(run, skill="pdf", script="scripts/spoil.sh")
    assert (made / "SKILL.md").read_text() == before


def test_skills_script_writes_below_its_working_folder(tmp_path: Path) -> None:
    made = skill(tmp_path, **{"scripts/make.sh": "echo made > out.txt\n"})
    (tmp_path / "work").mkdir()
    run = Skills(made, work=tmp_path / "work").offers["run_skill_script"]
    call(run, skill="pdf", script="scripts/make.sh")
    assert (tmp_path / "work" / "out.txt").read_text() == "made\n"


def test_skills_denied_scripts_are_not_offered_to_the_model(tmp_path: Path) -> None:
    skill(tmp_path, **{"scripts/a.sh": "true\n"})
    shown: list[list[str]] = []
    model = ScriptedModel(lambda messages, actions: shown.append([a.name for a in actions]) or "x")
    skills = Skills(tmp_path, access_policy=ACCESS_DENIED)
    ReActAgent("a", model, actions=[skills]).reply_sync("Hi")
    assert shown == [["load_skill", "read_skill_file"]]


def test_skills_changed_guidance_is_another_program(tmp_path: Path) -> None:
    async def never(messages: Any, actions: Any) -> str:
        asking.set()
        return await asyncio.Future()

    async def cut_off(agent: ReActAgent) -> None:
        task = asyncio.create_task(agent.reply("Hi", run_id="r"))
        await asking.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asking = asyncio.Event()
    skill(tmp_path / "skills")
    with Journal(tmp_path / "runs.db") as journal:
        agent = ReActAgent(
            "a", ScriptedModel([never]), actions=[Skills(tmp_path / "skills")], journal=journal
        )
        asyncio.run(cut_off(agent))
        skill(tmp_path / "skills", "xls")
        changed = ReActAgent(
            "a", ScriptedModel(["x"]), actions=[Skills(tmp_path / "skills")], journal=journal
        )
        with pytest.raises(RunMismatch, match="guidance"):
            changed.reply_sync("Hi", run_id="r")


# -- the format ------------------------------------------------------------------------------------

LONG = "x" * 65
CASES = {
    "right": "---\nname: pdf\ndescription: Reads.\n---\nBody",
    "all fields": "---\nname: pdf\ndescription: Reads.\nlicense: MIT\ncompatibility: any\n"
    "allowed-tools: Bash\nmetadata:\n  author: me\n  version: 1.0\n---\n",
    "no mark": "name: pdf\ndescription: Reads.\n",
    "no end": "---\nname: pdf\ndescription: Reads.\n",
    "no yaml": "---\n: : :\n---\n",
    "a list": "---\n- pdf\n---\n",
    "empty": "---\n---\n",
    "no name": "---\ndescription: Reads.\n---\n",
    "no description": "---\nname: pdf\n---\n",
    "empty name": "---\nname: ''\ndescription: Reads.\n---\n",
    "blank description": "---\nname: pdf\ndescription: '  '\n---\n",
    "other folder": "---\nname: xls\ndescription: Reads.\n---\n",
    "upper case": "---\nname: PDF\ndescription: Reads.\n---\n",
    "leading hyphen": "---\nname: -pdf\ndescription: Reads.\n---\n",
    "double hyphen": "---\nname: p--df\ndescription: Reads.\n---\n",
    "underscore": "---\nname: p_df\ndescription: Reads.\n---\n",
    "long name": f"---\nname: {LONG}\ndescription: Reads.\n---\n",
    "longest compatibility": f"---\nname: pdf\ndescription: R.\ncompatibility: {'x' * 500}\n---\n",
    "long description": f"---\nname: pdf\ndescription: {'x' * 1025}\n---\n",
    "longest description": f"---\nname: pdf\ndescription: {'x' * 1024}\n---\n",
    "long compatibility": f"---\nname: pdf\ndescription: R.\ncompatibility: {'x' * 501}\n---\n",
    "unknown field": "---\nname: pdf\ndescription: Reads.\nauthor: me\n---\n",
    "twice": "---\nname: pdf\nname: pdf\ndescription: Reads.\n---\n",
    "flow": "---\nname: pdf\ndescription: {a: b}\n---\n",
    "a number is text": "---\nname: pdf\ndescription: 12\n---\n",
}


@pytest.mark.parametrize("case", CASES)
def test_skills_are_judged_as_the_reference_judges_them(case: str, tmp_path: Path) -> None:
    made = skill(tmp_path, text=CASES[case])
    theirs = skills_ref.validate(made)
    assert bool(check_skill(made)) == bool(theirs), theirs


def test_skills_names_of_any_script_are_judged_as_the_reference_does(tmp_path: Path) -> None:
    for name in ("résumé", "技能", "данные", "a²", "a--b", "-a", "a-"):
        made = skill(tmp_path, name)
        assert bool(check_skill(made)) == bool(skills_ref.validate(made)), name


LENIENT = {
    "another-name": "name: other\ndescription: Reads.",
    "claude-field": "name: claude-field\ndescription: Reads.\nuser-invocable: true",
    "long": f"name: long\ndescription: {'Reads. ' * 300}",
    "Upper Case": "name: Upper Case\ndescription: Reads.",
    "no-name": "description: Reads.",
    "colon": "name: colon\ndescription: Use when: the user asks: now",
    "list": "name: list\ndescription: Reads.\nallowed-tools: [Read, Write]",
}


def test_skills_of_others_that_break_a_rule_are_loaded_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for folder, about in LENIENT.items():
        skill(tmp_path, folder, text=f"---\n{about}\n---\nDo it.\n")
    skill(tmp_path, "silent", text="---\nname: silent\n---\nDo it.\n")
    skill(tmp_path, "plain", text="Do it.\n")
    skills = Skills(tmp_path)
    names = ["Upper Case", "other", "claude-field", "colon", "list", "long", "no-name"]
    assert [*skills.skills] == names
    assert skills.skills["colon"].description == "Use when: the user asks: now"
    for folder in ("another-name", "claude-field", "long", "Upper Case", "no-name", "colon"):
        assert any(folder in each and "is loaded, but" in each for each in caplog.messages)
        assert check_skill(tmp_path / folder)
    for folder in ("silent", "plain"):
        assert any(folder in each and "is left out" in each for each in caplog.messages)


ODD = {
    "---\ndescription: Reads --- and writes.\n---\nDo.": ("Reads --- and writes.", "Do."),
    "---\nname: a---b\ndescription: Reads.\n---\nDo.\n\n---\n\nMore.": (
        "Reads.",
        "Do.\n\n---\n\nMore.",
    ),
    "---  \ndescription: >\n  Reads\n  files.\n---\t\nDo.": ("Reads files.", "Do."),
    "---\ndescription: |\n  When: a file.\nargument-hint: [a] [b]\n---\nDo.": (
        "When: a file.",
        "Do.",
    ),
    "---\ndescription: Reads.\n  Use when: asked.\n---\nDo.": ("Reads. Use when: asked.", "Do."),
    "---\ndescription: 'Reads' files: all\n---\nDo.": ("'Reads' files: all", "Do."),
    "---\ndescription: @files and `code`\n---\nDo.": ("@files and `code`", "Do."),
    "---\r\ndescription: Reads: now\r\n---\r\nDo.\r\nMore.": ("Reads: now", "Do.\nMore."),
    "---\ndescription: Liest Maße – 日本語.\n---\nDo.": ("Liest Maße – 日本語.", "Do."),
    "---\ndescription: Reads.\nmetadata: {a: 1}\nversion: 1.0\n---": ("Reads.", ""),
    "\n \n---\ndescription: Reads.\n---\nDo.": ("Reads.", "Do."),
    "---\ndescription: Reads.\nmetadata:\n  {\n    'a': {'bins': ['gh']},\n  }\n---\nDo.": (
        "Reads.",
        "Do.",
    ),
    "---\ndescription: >\n  Reads\n  files.\nmetadata:\n  tags: [a, b]\n  x: {y: 1}\n---\nDo.": (
        "Reads files.",
        "Do.",
    ),
    "---\ndescription: Reads.\nuser_invocable: a: b\n---\nDo.": ("Reads.", "Do."),
}


def test_skills_of_odd_spelling_have_their_whole_description_and_instructions(
    tmp_path: Path,
) -> None:
    for number, text in enumerate(ODD):
        skill(tmp_path, f"s{number}").joinpath("SKILL.md").write_bytes(text.encode())
    loaded = Skills(tmp_path).skills.values()
    found = sorted(loaded, key=lambda each: int(Path(each.folder.root).name[1:]))
    assert [(each.description.rstrip(), each.body) for each in found] == [*ODD.values()]


def test_skills_lie_below_folders_and_behind_links_and_none_within_another(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    skills = tmp_path / "skills"
    pdf = skill(skills / "engineering" / "docs", "pdf")
    skill(pdf / "examples", "inner")
    for hidden in (".git", "node_modules"):
        skill(skills / hidden, "copy")
    (skills / "reports").symlink_to(skill(tmp_path / "elsewhere", "reports-v2"))
    (skills / "round").symlink_to(skills)
    (skills / "gone").symlink_to(tmp_path / "nowhere")
    assert [*Skills(skills).skills] == ["pdf", "reports-v2"]
    assert not [each for each in caplog.messages if "is left out" in each]
    (skills / "xls").symlink_to(
        skill(tmp_path / "v2", "xls", "---\nname: xls\ndescription: x\n---\n")
    )
    assert check_skill(skills / "xls") == []


@pytest.mark.parametrize("stated", ("true", "True", "yes", '"true"', "true  # by hand"))
def test_skills_that_no_model_may_invoke_are_not_for_the_model(tmp_path: Path, stated: str) -> None:
    about = f"name: deploy\ndescription: Deploys.\ndisable-model-invocation: {stated}"
    skill(tmp_path, "deploy", text=f"---\n{about}\n---\nDo it.\n")
    skill(tmp_path, "read")
    skills = Skills(tmp_path)
    assert [*skills.skills] == ["deploy", "read"]
    assert "deploy" not in skills.guidance
    with pytest.raises(NoSuchFile):
        skills.offers["load_skill"].function("deploy")


def test_skills_of_an_earlier_folder_have_precedence(tmp_path: Path) -> None:
    for each in ("project", "user"):
        skill(tmp_path / each, "pdf", text=f"---\nname: pdf\ndescription: Of {each}.\n---\nDo.\n")
    skill(tmp_path / "user", "xls")
    skills = Skills([tmp_path / "project", tmp_path / "user"])
    assert [*skills.skills] == ["pdf", "xls"]
    assert skills.skills["pdf"].description == "Of project."


@pytest.mark.parametrize(
    "text",
    (
        "---\nname: pdf\ndescription: !!python/object/apply:os.system ['true']\n---\n",
        "---\na: &a\n  b: *a\n---\n",
        "---\n" + "\n".join(f"{'  ' * n}a:" for n in range(80)) + "\n---\n",
    ),
)
def test_skills_hostile_yaml_is_refused(text: str, tmp_path: Path) -> None:
    assert check_skill(skill(tmp_path, text=text))


def test_skills_wrong_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no skill in"):
        Skills(tmp_path)
    with pytest.raises(FileError):
        Skills(tmp_path / "nowhere")
    assert check_skill(tmp_path / "nowhere") == [f"{tmp_path / 'nowhere'} does not exist"]
    assert check_skill(tmp_path) == ["it has no SKILL.md"]


@pytest.mark.parametrize(
    ("options", "told"),
    (
        ({"timeout_s": 0}, "timeout_s= must be a number of seconds above 0, or None, got 0"),
        ({"timeout": 5}, "Skills has no argument timeout="),
        ({"sandbox": "strong"}, "sandbox= must be"),
    ),
)
def test_skills_wrong_argument_is_named(options: dict[str, Any], told: str, tmp_path: Path) -> None:
    skill(tmp_path)
    with pytest.raises((ConfigError, DefinitionError), match=told):
        Skills(tmp_path, **options)


# -- the skill about this package ------------------------------------------------------------------


def test_skills_own_skill_is_valid() -> None:
    assert skills_ref.validate(ROOT / "skills" / "moothall") == []
    assert list(Skills(ROOT / "skills").skills) == ["moothall"]


def test_skills_own_programs_run(tmp_path: Path) -> None:
    text = (ROOT / "skills" / "moothall" / "references" / "programs.md").read_text()
    programs = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(programs) == 4
    for program in programs:
        subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path, timeout=60)


def test_skills_of_several_folders_are_those_of_one_agent(tmp_path: Path) -> None:
    """Each keeps its own options; the prompt has one list."""
    skill(tmp_path / "ours", **{"scripts/where.py": "import os\nprint(os.getcwd())\n"})
    skill(tmp_path / "theirs", "xls", **{"scripts/where.py": "import os\nprint(os.getcwd())\n"})
    (tmp_path / "work").mkdir()
    ours = Skills(tmp_path / "ours", work=tmp_path / "work", access_policy=ACCESS_PERMITTED)
    theirs = Skills(tmp_path / "theirs", access_policy=ACCESS_PERMITTED)
    model = ScriptedModel(
        [
            *({"name": "load_skill", "args": {"name": name}} for name in ("pdf", "xls", "doc")),
            *(
                {"name": "run_skill_script", "args": {"skill": name, "script": "scripts/where.py"}}
                for name in ("pdf", "xls")
            ),
            "done",
        ]
    )
    agent = ReActAgent("a", model, actions=[ours, theirs], system_prompt="Hi.")
    pdf, xls, doc, work, own = agent.reply_sync("Do it").steps
    assert "Read them well." in pdf.result["result"]
    assert "Read them well." in xls.result["result"]
    assert "the skills are pdf, xls" in str(doc.error)
    assert work.result["result"] == f"{tmp_path / 'work'}\n"
    assert own.result["result"] != work.result["result"]
    prompt = model.received[0][0]["content"]
    assert prompt.count("# Skills") == 1
    assert re.search(r"\n- pdf: .*\n- xls: ", prompt)
    assert list(ours.skills) == ["pdf"]  # the given objects stay as they were
    assert "xls" not in ours.guidance


def test_skills_of_several_folders_that_cannot_be_one_agents_name_both(tmp_path: Path) -> None:
    for folder in ("ours", "theirs"):
        skill(tmp_path / folder)
    skill(tmp_path / "third", "xls")
    one, two = Skills(tmp_path / "ours"), Skills(tmp_path / "theirs")
    same = r"two skills are called 'pdf': .*/ours/pdf and .*/theirs/pdf"
    with pytest.raises(DefinitionError, match=same):
        ReActAgent("a", ScriptedModel([]), actions=[one, two])
    third = Skills(tmp_path / "third", access_policy=ACCESS_DENIED)
    other = r"access_policy= is .requested. for .*/ours and .denied. for .*/third"
    with pytest.raises(DefinitionError, match=other):
        ReActAgent("a", ScriptedModel([]), actions=[one, third])
