#!/bin/sh
# Compares what the functions say with what was counted by hand.
. ./src/cart.sh

failed=0

check() {
    if [ "$2" = "$3" ]; then
        echo "ok: $1 is $2"
    else
        echo "FAILED: $1 is $2, and should be $3"
        failed=1
    fi
}

check "the number of articles" "$(articles basket.txt)" 7
check "the total" "$(total basket.txt)" 1500
exit "$failed"
