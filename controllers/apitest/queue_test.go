package apitest

import (
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
)

// request is what wakes the queue.
var request = ctrl.Request{NamespacedName: types.NamespacedName{Name: "builds"}}
