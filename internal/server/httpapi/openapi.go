package httpapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/invopop/jsonschema"

	"cdui/internal/api"
	"cdui/internal/device"
)

// openapi serves the OpenAPI 3.1 document, made from the route table and the
// Go types of the bodies.
func (s *Server) openapi(w http.ResponseWriter, _ *http.Request) error {
	doc, err := s.document()
	if err != nil {
		return err
	}
	s.write(w, http.StatusOK, doc)
	return nil
}

func (s *Server) document() (map[string]any, error) {
	schemas := map[string]any{}
	paths := map[string]map[string]any{}
	for _, rt := range s.routes() {
		op := map[string]any{"summary": rt.doc, "operationId": operationID(rt)}
		if p := parameters(rt); len(p) > 0 {
			op["parameters"] = p
		}
		if rt.request != nil {
			ref, err := reference(rt.request, schemas)
			if err != nil {
				return nil, err
			}
			op["requestBody"] = map[string]any{"content": map[string]any{"application/json": map[string]any{"schema": ref}}}
		}
		ok := map[string]any{"description": "done"}
		if rt.response != nil {
			ref, err := reference(rt.response, schemas)
			if err != nil {
				return nil, err
			}
			ok["content"] = map[string]any{"application/json": map[string]any{"schema": ref}}
		}
		failure, err := reference(api.ErrorBody{}, schemas)
		if err != nil {
			return nil, err
		}
		op["responses"] = map[string]any{
			strconv.Itoa(cmp.Or(rt.status, http.StatusOK)): ok,
			"default": map[string]any{"description": "refused or failed", "content": map[string]any{"application/json": map[string]any{"schema": failure}}},
		}
		if rt.method != http.MethodGet && !rt.reads {
			op["security"] = []any{map[string]any{"token": []string{}}, map[string]any{"bearer": []string{}}}
		}
		if paths[rt.path] == nil {
			paths[rt.path] = map[string]any{}
		}
		paths[rt.path][strings.ToLower(rt.method)] = op
	}
	return map[string]any{
		"openapi": "3.1.0",
		"info":    map[string]any{"title": "cdui", "version": s.cfg.Host.Info().Version},
		"paths":   paths,
		"components": map[string]any{
			"schemas": schemas,
			"securitySchemes": map[string]any{
				"token":  map[string]any{"type": "apiKey", "in": "header", "name": api.HeaderToken},
				"bearer": map[string]any{"type": "http", "scheme": "bearer"},
			},
		},
	}, nil
}

func operationID(rt route) string {
	name := strings.NewReplacer("/api/", "", "{", "", "}", "", "/", "-", ".", "-").Replace(rt.path)
	return strings.ToLower(rt.method) + "-" + strings.TrimPrefix(name, "-")
}

func parameters(rt route) []any {
	var out []any
	if strings.Contains(rt.path, "{id}") {
		out = append(out, map[string]any{"name": "id", "in": "path", "required": true, "schema": map[string]any{"type": "string"}})
	}
	for _, p := range rt.params {
		schema := map[string]any{"type": p.kind}
		if p.repeated {
			schema = map[string]any{"type": "array", "items": schema}
		}
		out = append(out, map[string]any{"name": p.name, "in": "query", "description": p.doc, "schema": schema})
	}
	return out
}

// reference adds the schema of v's type to schemas and gives a $ref to it.
func reference(v any, schemas map[string]any) (map[string]any, error) {
	t := reflect.TypeOf(v)
	if t.Kind() == reflect.Slice {
		items, err := reference(reflect.Zero(t.Elem()).Interface(), schemas)
		return map[string]any{"type": "array", "items": items}, err
	}
	name := t.Name()
	ref := map[string]any{"$ref": "#/components/schemas/" + name}
	if _, ok := schemas[name]; ok {
		return ref, nil
	}
	reflector := jsonschema.Reflector{
		Anonymous: true, DoNotReference: true, ExpandedStruct: true, AllowAdditionalProperties: true,
		RequiredFromJSONSchemaTags: true, Mapper: mapType,
	}
	raw, err := json.Marshal(reflector.Reflect(v))
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", name, err)
	}
	var schema map[string]any
	if err := json.Unmarshal(raw, &schema); err != nil {
		return nil, fmt.Errorf("schema of %s: %w", name, err)
	}
	delete(schema, "$schema")
	nullable(t, schema)
	schemas[name] = schema
	return ref, nil
}

// mapType describes the types that are not written as Go has them.
func mapType(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[json.RawMessage]():
		return &jsonschema.Schema{}
	case reflect.TypeFor[device.Health]():
		sick := jsonschema.NewProperties()
		sick.Set("code", &jsonschema.Schema{Type: "string"})
		sick.Set("text", &jsonschema.Schema{Type: "string"})
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{
			{Const: "ok"},
			{Type: "object", Properties: sick, Required: []string{"code", "text"}},
		}}
	}
	return nil
}

// nullable lets the members null that Go marshals as null: pointers, slices
// and maps without omitempty.
func nullable(t reflect.Type, schema map[string]any) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
		if items, ok := schema["items"].(map[string]any); ok {
			schema = items
		}
	}
	props, ok := schema["properties"].(map[string]any)
	if !ok || t.Kind() != reflect.Struct {
		return
	}
	for f := range t.Fields() {
		if f.Anonymous {
			nullable(f.Type, schema)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		prop, ok := props[name].(map[string]any)
		if !ok {
			continue
		}
		nullable(f.Type, prop)
		switch f.Type.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			if kind, ok := prop["type"].(string); ok {
				prop["type"] = []any{kind, "null"}
			}
		}
	}
}
