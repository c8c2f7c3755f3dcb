package gitsource

import (
	"container/list"
	"sync"
)

// lru keeps what was used last, up to a total cost. It is safe for concurrent use.
type lru[K comparable, V any] struct {
	limit   int64
	cost    func(V) int64 // nil: each costs 1
	evicted func(V)       // nil: nothing is done

	mu    sync.Mutex
	used  int64
	order *list.List // front is the most recent
	items map[K]*list.Element
}

type lruItem[K comparable, V any] struct {
	key   K
	value V
	cost  int64
}

func newLRU[K comparable, V any](limit int64) *lru[K, V] {
	return &lru[K, V]{limit: limit, order: list.New(), items: map[K]*list.Element{}}
}

// get returns a value and marks it used.
func (l *lru[K, V]) get(key K) (value V, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	element, ok := l.items[key]
	if !ok {
		return value, false
	}
	l.order.MoveToFront(element)
	return element.Value.(*lruItem[K, V]).value, true
}

// put keeps a value, unless it alone costs more than the limit.
func (l *lru[K, V]) put(key K, value V) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.insert(key, value)
}

// getOrPut returns the value of a key, made at the first call.
func (l *lru[K, V]) getOrPut(key K, make func() V) V {
	l.mu.Lock()
	defer l.mu.Unlock()
	if element, ok := l.items[key]; ok {
		l.order.MoveToFront(element)
		return element.Value.(*lruItem[K, V]).value
	}
	value := make()
	l.insert(key, value)
	return value
}

func (l *lru[K, V]) insert(key K, value V) {
	item := &lruItem[K, V]{key: key, value: value, cost: 1}
	if l.cost != nil {
		item.cost = l.cost(value)
	}
	l.remove(l.items[key])
	if item.cost > l.limit {
		return
	}
	l.items[key] = l.order.PushFront(item)
	l.used += item.cost
	for l.used > l.limit {
		l.remove(l.order.Back())
	}
}

func (l *lru[K, V]) remove(element *list.Element) {
	if element == nil {
		return
	}
	item := l.order.Remove(element).(*lruItem[K, V])
	delete(l.items, item.key)
	l.used -= item.cost
	if l.evicted != nil {
		l.evicted(item.value)
	}
}

// values is every value, the most recent first.
func (l *lru[K, V]) values() []V {
	l.mu.Lock()
	defer l.mu.Unlock()
	values := make([]V, 0, len(l.items))
	for element := l.order.Front(); element != nil; element = element.Next() {
		values = append(values, element.Value.(*lruItem[K, V]).value)
	}
	return values
}
