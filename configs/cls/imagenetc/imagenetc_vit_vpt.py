_base_ = ["../../_base_/cls/runtime.py", "../../_base_/cls/imagenetc_vit.py"]
method = dict(type="vpt")
params = dict(type="prompt", count=8)
optimizer = dict(_delete_=True, type="AdamW", lr=0.1, weight_decay=1e-5)  # DPCore's
