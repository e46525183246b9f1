_base_ = ["./imagenetc_vit_eta.py", "../../_base_/cls/reservoir.py"]
