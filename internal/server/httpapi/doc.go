// Package httpapi serves the REST API and /ws/execution: it decodes, checks
// who calls, calls the run service or reads the store, and encodes. No rule
// about runs stands here.
//
// One table (routes) names every route with its bodies; the mux and the
// OpenAPI document are both made from it.
package httpapi
