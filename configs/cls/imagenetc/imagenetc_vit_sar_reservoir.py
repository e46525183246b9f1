_base_ = ["./imagenetc_vit_sar.py", "../../_base_/cls/reservoir.py"]
