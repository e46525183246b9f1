_base_ = ["../../_base_/cls/runtime.py", "../../_base_/cls/imagenetc_vit.py"]
# DPCore's rule for prompts.
method = dict(
    type="dpcore",
    limit=2000,
    optimizer=dict(_delete_=True, type="AdamW", lr=0.1, weight_decay=1e-5),
)
params = dict(type="prompt", count=8)
