_base_ = "../../_base_/cls/digits_vit.py"
method = dict(type="dpcore")
params = dict(type="prompt", count=8)
# DPCore's rule for prompts.
optimizer = dict(_delete_=True, type="AdamW", lr=0.1, weight_decay=1e-5)
