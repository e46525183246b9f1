_base_ = ["./imagenetc_vit_roid.py", "../../_base_/cls/reservoir.py"]
