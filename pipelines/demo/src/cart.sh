# Functions about baskets. A basket is a file with a line for each article: its name, how many, and the price of one in cents.

# How many articles are in a basket.
articles() {
    count=0
    while read -r name quantity price; do
        count=$((count + quantity))
    done < "$1"
    echo "$count"
}

# What a basket costs, in cents.
total() {
    sum=0
    while read -r name quantity price; do
        sum=$((sum + price))
    done < "$1"
    echo "$sum"
}
