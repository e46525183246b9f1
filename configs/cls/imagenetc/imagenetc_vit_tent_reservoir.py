_base_ = ["./imagenetc_vit_tent.py", "../../_base_/cls/reservoir.py"]
