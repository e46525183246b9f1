_base_ = ["../../_base_/cls/runtime.py", "../../_base_/cls/imagenetc_vit.py"]
method = dict(type="sar")
optimizer = dict(lr=1e-4)  # the table's exception
