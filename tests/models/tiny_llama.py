"""A Llama of two layers and a kilobyte or two of knowledge, made and taught here.

It has a tokenizer of bytes with a chat template, and says what it was taught to say to a prompt.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

END = 2
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tokenizer() -> Any:
    """Bytes, and the marks of a chat."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    listed = ["<unk>", "<|im_start|>", "<|im_end|>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    made = Tokenizer(models.BPE(vocab={token: n for n, token in enumerate(listed)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="<|im_end|>", additional_special_tokens=["<|im_start|>"]
    )
    fast.chat_template = TEMPLATE
    return fast


def write(
    folder: Path, lessons: list[tuple[list[dict[str, str]], str]], context_tokens: int = 2048
) -> None:
    """Make the model in a folder and teach it until it has learnt."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    bytes_of = tokenizer()
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(bytes_of),
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=context_tokens,
            bos_token_id=None,
            eos_token_id=END,
        )
    )
    rows = []
    for chat, said in lessons:
        prompt = bytes_of.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
        answer = [*bytes_of(said, add_special_tokens=False)["input_ids"], END]
        rows.append((prompt + answer, [-100] * len(prompt) + answer))
    rows.sort(key=lambda row: len(row[0]))
    half = len(rows) // 2
    batches = [_batch(some) for some in (rows[:half], rows[half:]) if some]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # so small a model is slower on several
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    for _ in range(400 if batches else 0):
        worst = 0.0
        for ids, labels in batches:
            loss = model(input_ids=ids, labels=labels).loss
            loss.backward()
            worst = max(worst, loss.item())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if worst < 0.004:
            break
    torch.set_num_threads(threads)
    model.save_pretrained(folder)
    bytes_of.save_pretrained(folder)


def _batch(rows: list[tuple[list[int], list[int]]]) -> tuple[Any, Any]:
    """The rows as two tensors; what follows a row's end is not looked at."""
    import torch

    longest = max(len(ids) for ids, _ in rows)
    ids = torch.tensor([row + [END] * (longest - len(row)) for row, _ in rows])
    labels = torch.tensor([row + [-100] * (longest - len(row)) for _, row in rows])
    return ids, labels
