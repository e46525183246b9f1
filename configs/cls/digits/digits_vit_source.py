_base_ = "../../_base_/cls/digits_vit.py"
method = dict(type="source")
