"""Who settles what citizens want: the bank, the government, firms, the feed."""
