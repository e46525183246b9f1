_base_ = ["./imagenetc_vit_vpt.py", "../../_base_/cls/reservoir.py"]
